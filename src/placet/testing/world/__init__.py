"""The real engine over a real store in a world of drawn faults and virtual time, judged by what really happened there.

It is no mock: stages, engine and store are the ones that run in production. Only time, chance, the machines, the wires
between them and the processes' lives are made up, all of them drawn from one seed.
"""
