#!/usr/bin/env python3
import sys

def fibonacci(count):
    first, second = 0, 1
    for _ in range(count):
        yield first
        first, second = second, first + second

if __name__ == "__main__":
    print(*fibonacci(int(sys.argv[1])), sep="\n")
