"""Tables, statistics, verdicts and figures that all studies share."""
