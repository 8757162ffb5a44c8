"""Operations on pipeline records, their order, their audit, and records as code."""
