"""Tables, figures and sentences of the audit."""
