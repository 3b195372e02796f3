"""What do the commands about assignments do? Arguments in, tables out."""
