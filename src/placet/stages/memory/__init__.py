"""How much memory a model needs on each GPU, as an interval with reasons; pure, and no offer is looked at."""
