"""What a user has, made into a float graph of `mcutrain.ir`."""
