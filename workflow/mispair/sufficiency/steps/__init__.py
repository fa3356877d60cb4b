"""Steps of the sufficiency study."""
