"""Where does the code of a student run? In kernels that nobody trusts."""
