"""Tasks whose worlds are texts: where prompts come from and what an answer is worth."""
