"""What to train, found from data: gradients of a few samples, and a choice under the SRAM."""
