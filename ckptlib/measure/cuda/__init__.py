"""What would a GPU have done? Its allocator, its kernels' hidden memory, its choice of ops, and a trace replayed."""
