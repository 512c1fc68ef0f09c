"""Physics engines that a bundle is validated in beside MuJoCo."""
