"""The words that clients and runners know: spec, REST shapes, errors, manifest; never what the core computes with."""
