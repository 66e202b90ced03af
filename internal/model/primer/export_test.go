package primer

// Kinds is how many beginnings are known.
func (m *Model) Kinds() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.prefixes)
}
