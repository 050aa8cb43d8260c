"""What a plan costs (`accounting`), and what a run did (`log`, `html`): data in, tables and plots out."""
