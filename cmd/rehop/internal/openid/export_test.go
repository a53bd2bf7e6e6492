package openid

// Forget makes the next login ask the provider, as if the pause after a failure were over.
func (p *Provider) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = failure{}
}

// Outdate makes what is known of the provider too old.
func (p *Provider) Outdate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.read = p.known.read.Add(-freshFor)
}

// LargestAnswer is how many bytes an answer may have.
const LargestAnswer = largestAnswer
