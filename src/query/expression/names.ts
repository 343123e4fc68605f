/** Names that several steps of an expression's way share. */

/** The function that placeholders.ts writes in the place of a placeholder. */
export const POLICY_VALUE = 'policy_value'
