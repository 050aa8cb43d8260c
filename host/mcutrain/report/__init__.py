"""What a plan costs (`accounting`), what a run did (`log`), both as one HTML file (`html`)."""
