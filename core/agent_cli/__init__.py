"""Agent CLIs, programs that think and act by themselves in a process of their own: how they are driven and read."""
