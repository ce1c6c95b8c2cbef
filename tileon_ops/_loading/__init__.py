"""Finding and loading `_C.so`: is it built, of these sources, for this machine."""
