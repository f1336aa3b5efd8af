"""The HTTP door over intake and queries; it parses and maps, it does not decide."""
