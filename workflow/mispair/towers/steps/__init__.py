"""Steps that encode with towers and train them."""
