"""Steps of the study of towers trained on wrong captions."""
