"""Other packages' ways to this one's layers. Each module needs the package that it is named after."""
