"""Effects: what generated code may ask the host to do, which requests pass, and what it never gets to see."""
