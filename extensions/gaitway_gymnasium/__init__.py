"""Any Gymnasium or EnvPool environment."""
