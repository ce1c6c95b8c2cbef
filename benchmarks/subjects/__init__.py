"""A file a product: its targets, tables and figure."""
