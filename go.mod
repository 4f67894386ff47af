module softrdma

go 1.26
