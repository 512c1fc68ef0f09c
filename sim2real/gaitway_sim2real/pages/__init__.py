"""The shell, style and plots of every report."""
