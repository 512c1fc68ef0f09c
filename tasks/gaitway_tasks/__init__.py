"""What is to be learnt: robots, terms and task specifications. Imports torch and numpy only, and torch only on use."""
