"""Which Python objects hold a tensor, named as a user would name them."""
