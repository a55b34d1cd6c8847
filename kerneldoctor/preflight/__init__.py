"""What a job must find before it starts: a policy, the checks that follow from it, and many ranks with one answer."""
