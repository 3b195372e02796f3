"""Where does a student's code run? In kernels forked from a warm process, in worlds of their own."""
