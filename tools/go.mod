module softrdma/tools

go 1.26.0
