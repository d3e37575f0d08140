"""What the verbs of agents show in a terminal."""
