"""Text generation: tokenisers, models, engines that continue prompts, and the world that language agents learn in."""
