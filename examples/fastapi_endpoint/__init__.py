"""A chat endpoint whose clients send their history along, and one that keeps it for them."""
