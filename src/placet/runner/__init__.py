"""What runs beside the user's command, standard library only; it knows nothing of the rest of Placet."""
