"""Complete small programs to read and to run: data, models, losses, update, loop, evaluation, files."""
