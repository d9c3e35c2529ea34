//! What disruption budgets say about a Pod.
