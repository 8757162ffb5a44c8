export function PersonsPage() { return null; }
