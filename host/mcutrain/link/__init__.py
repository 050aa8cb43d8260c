"""The serial link: what the bytes mean, how they get there, and the devices at the other end."""
