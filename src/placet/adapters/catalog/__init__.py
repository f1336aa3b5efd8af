"""Where offers come from besides providers themselves: files, live catalogues. It judges none of them."""
