"""What tests share; nothing here stands in for code of ours."""
