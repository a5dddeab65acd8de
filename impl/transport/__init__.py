"""How effects reach the world."""
