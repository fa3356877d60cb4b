"""Tables, figures and sentences of the repair."""
