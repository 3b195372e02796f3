"""What do the commands about models do? Arguments in, tables out."""
