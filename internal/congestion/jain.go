package congestion

// Jain returns Jain's fairness index of shares: 1 if all are equal, 1/n if one has everything.
func Jain(shares []float64) float64 {
	var sum, squares float64
	for _, v := range shares {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(shares)) * squares)
}
