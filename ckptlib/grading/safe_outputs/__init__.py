"""What may leave the sandbox? Text and images that a browser can show without running anything."""
