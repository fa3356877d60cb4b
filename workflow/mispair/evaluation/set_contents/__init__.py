"""What the files of an evaluation set hold: samples, prompts by class, names of questions."""
