"""The fields of a survey's documents. Pure.

Evidence: PostHog's frontend/src/types.ts (Survey, SurveyQuestionBase and the types that extend it,
SurveyDisplayConditions, SurveyAppearance), SurveySerializerCreateUpdateOnlyApi in
products/surveys/frontend/generated/api.schemas.ts, and the same types in posthog-js 1.230,
@posthog/core and posthog-react-native.
"""

from hedgerow.lib.shape import ByName, Shape

_QUESTION_TEXTS = (
    *("question", "description", "buttonText", "link"),
    *("lowerBoundLabel", "upperBoundLabel", "choices"),
)
QUESTION = Shape(
    *("id", "type", "optional", "descriptionContentType", *_QUESTION_TEXTS),
    *("display", "scale", "isNpsQuestion", "hasOpenChoice", "shuffleOptions", "skipSubmitButton"),
    branching=Shape("type", "index", "responseValues"),
    validation=Shape("type", "value", "errorMessage"),
    translations=ByName(Shape(*_QUESTION_TEXTS)),
    # `originalQuestionIndex` is added by SDKs, `required` by older versions of PostHog.
    unused=("originalQuestionIndex", "required"),
)
_TRIGGER = Shape(
    "repeatedActivation",
    values=Shape("name", "id", propertyFilters=ByName(Shape("values", "operator"))),
)
CONDITIONS = Shape(
    *("url", "urlMatchType", "selector", "seenSurveyWaitPeriodInDays", "linkedFlagVariant"),
    *("deviceTypes", "deviceTypesMatchType"),
    events=_TRIGGER,
    cancelEvents=_TRIGGER,
    # PostHog replaces the actions by their whole definitions.
    actions=Shape("values"),
)
_SURVEY_TEXTS = (
    *("thankYouMessageHeader", "thankYouMessageDescription", "thankYouMessageCloseButtonText"),
    *("introScreenHeader", "introScreenDescription", "introScreenButtonText"),
    *("submitButtonText", "backButtonText"),
)
APPEARANCE = Shape(
    *_SURVEY_TEXTS,
    *("backgroundColor", "textColor", "textSubtleColor", "descriptionTextColor", "borderColor"),
    *("submitButtonColor", "submitButtonTextColor", "disabledButtonOpacity"),
    *("ratingButtonColor", "ratingButtonActiveColor", "ratingButtonHoverColor"),
    *("inputBackground", "inputTextColor", "placeholder", "fontFamily", "maxFontSizeMultiplier"),
    *("maxWidth", "boxPadding", "boxShadow", "borderRadius", "zIndex", "position", "tabPosition"),
    *("displayThankYouMessage", "thankYouMessageDescriptionContentType", "autoDisappear"),
    *("displayIntroScreen", "introScreenDescriptionContentType"),
    *("whiteLabel", "shuffleQuestions", "surveyPopupDelaySeconds", "allowGoBack"),
    *("hideCancelButton", "widgetType", "widgetSelector", "widgetLabel", "widgetColor"),
)
TRANSLATIONS = ByName(Shape("name", *_SURVEY_TEXTS))
# Fields of a survey that PostHog returns or accepts and that have no effect here.
POSTHOG_SURVEY_FIELDS = frozenset(
    (
        *("id", "team_id", "created_by", "created_at", "updated_at", "user_access_level"),
        *("linked_flag", "targeting_flag", "internal_targeting_flag", "feature_flag_keys"),
        *("internal_response_sampling_flag", "internal_response_sampling_flag_id"),
        *("iteration_start_dates", "current_iteration", "current_iteration_start_date"),
        *("linked_insight_id", "enable_iframe_embedding", "base_language", "form_content"),
        *("headline_summary", "headline_response_count", "_create_in_folder"),
    )
)
