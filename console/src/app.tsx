// Which page an address shows, and who may see it.
import { Button } from "./ui/controls";
import { FlagsPage } from "./pages/flags/flags";
import { logOut, Shell } from "./shell/shell";
import { Page } from "./ui/page";
import { useQuery } from "@tanstack/react-query";
import type { ComponentType, FunctionComponent } from "preact";
import { lazy, Suspense } from "preact/compat";
import { useEffect } from "preact/hooks";
import { Redirect, Route, Switch } from "wouter-preact";
import { get } from "./api/client";
import { isConfirming, loginState } from "./api/session";
import { useSignal } from "./api/signal";
import type { Project, User } from "./api/types";
import { reloadOnce } from "./lib/reload";
import { t } from "./lib/text";
import { ConfirmLoginDialog, LoginDialog, LoginPage, tokenLink } from "./shell/login";
import { ProjectContext } from "./shell/project";
import "./nonce";
import { Empty, Failed, Loading } from "./ui/states";
import { Toasts } from "./ui/toasts";

const page = (load: () => Promise<ComponentType>) => lazy(async () => ({ default: await load().catch(reloadOnce) })) as FunctionComponent<object>;
const FlagPage = page(() => import("./pages/flag/flag").then((module) => module.FlagPage));
const ScheduledChangesPage = page(() => import("./pages/flag/schedule/schedule").then((module) => module.ScheduledChangesPage));
const RolloutsPage = page(() => import("./pages/rollouts/rollouts").then((module) => module.RolloutsPage));
const RolloutPage = page(() => import("./pages/rollouts/rollout").then((module) => module.RolloutPage));
const EnvironmentsPage = page(() => import("./pages/environments/environments").then((module) => module.EnvironmentsPage));
const ChangesPage = page(() => import("./pages/changes/changes").then((module) => module.ChangesPage));
const PoliciesPage = page(() => import("./pages/changes/policies").then((module) => module.PoliciesPage));
const ChangePage = page(() => import("./pages/changes/change").then((module) => module.ChangePage));
const PersonsPage = page(() => import("./pages/persons/persons").then((module) => module.PersonsPage));
const PersonPage = page(() => import("./pages/persons/person").then((module) => module.PersonPage));
const CohortsPage = page(() => import("./pages/cohorts/cohorts").then((module) => module.CohortsPage));
const CohortPage = page(() => import("./pages/cohorts/cohort").then((module) => module.CohortPage));
const GroupsPage = page(() => import("./pages/groups/groups").then((module) => module.GroupsPage));
const GroupPage = page(() => import("./pages/groups/group").then((module) => module.GroupPage));
const ExperimentsPage = page(() => import("./pages/experiments/experiments").then((module) => module.ExperimentsPage));
const HoldoutsPage = page(() => import("./pages/experiments/holdouts").then((module) => module.HoldoutsPage));
const ExperimentPage = page(() => import("./pages/experiments/experiment").then((module) => module.ExperimentPage));
const SurveysPage = page(() => import("./pages/surveys/surveys").then((module) => module.SurveysPage));
const SurveyPage = page(() => import("./pages/surveys/survey").then((module) => module.SurveyPage));
const FeaturesPage = page(() => import("./pages/early_access/features").then((module) => module.FeaturesPage));
const FeaturePage = page(() => import("./pages/early_access/feature").then((module) => module.FeaturePage));
const ExplorePage = page(() => import("./pages/events/explore").then((module) => module.ExplorePage));
const LivePage = page(() => import("./pages/events/live").then((module) => module.LivePage));
const QueryPage = page(() => import("./pages/query").then((module) => module.QueryPage));
const ActivityPage = page(() => import("./pages/activity").then((module) => module.ActivityPage));
const HomePage = page(() => import("./pages/home/home").then((module) => module.HomePage));
const SettingsPage = page(() => import("./pages/settings/settings").then((module) => module.SettingsPage));
const SystemPage = page(() => import("./pages/system").then((module) => module.SystemPage));
const PipelinesPage = page(() => import("./pages/pipelines/list").then((module) => module.PipelinesPage));
const CataloguePage = page(() => import("./pages/pipelines/catalogue").then((module) => module.CataloguePage));
const RecordPage = page(() => import("./pages/pipelines/record").then((module) => module.RecordPage));
const IngestionPage = page(() => import("./pages/ingestion/ingestion").then((module) => module.IngestionPage));
const InsightsPage = page(() => import("./pages/insights/insights").then((module) => module.InsightsPage));
const InsightPage = page(() => import("./pages/insights/insight").then((module) => module.InsightPage));
const DashboardsPage = page(() => import("./pages/dashboards/dashboards").then((module) => module.DashboardsPage));
const DashboardPage = page(() => import("./pages/dashboards/dashboard").then((module) => module.DashboardPage));
const EventDefinitionsPage = page(() => import("./pages/definitions/definitions").then((module) => module.EventDefinitionsPage));
const EventDefinitionPage = page(() => import("./pages/definitions/event").then((module) => module.EventDefinitionPage));
const PropertyDefinitionsPage = page(() => import("./pages/definitions/definitions").then((module) => module.PropertyDefinitionsPage));
const ActionsPage = page(() => import("./pages/actions/actions").then((module) => module.ActionsPage));
const ActionPage = page(() => import("./pages/actions/action").then((module) => module.ActionPage));
// A shared link needs no login.
const SHARED = /^\/shared_dashboard\/[^/]+$/;
const SharedPage = page(() => import("./pages/dashboards/shared").then((module) => module.SharedPage));

export function App() {
  const login = useSignal(loginState);
  const isAsked = useSignal(isConfirming);
  const link = useSignal(tokenLink);
  return (
    <>
      {SHARED.test(location.pathname) ? (
        <Suspense fallback={<Loading />}>
          <SharedPage />
        </Suspense>
      ) : login === "out" || link ? (
        <LoginPage />
      ) : (
        <Start />
      )}
      {login === "expired" && <LoginDialog />}
      {isAsked && login === "in" && <ConfirmLoginDialog />}
      <Toasts />
    </>
  );
}

/** Find the person and the project, then show the pages of the project. */
function Start() {
  const user = useQuery({ queryKey: ["me"], queryFn: () => get<User>("/api/users/@me/"), staleTime: 60_000 });
  if (user.error && !user.data) return <Failed error={user.error} onRetry={() => user.refetch()} />;
  // The page of a project does not wait for the person: everything is requested at once.
  return (
    <Switch>
      <Route path="/project/:project/*?">{(params) => <InProject id={params.project ?? ""} user={user.data} />}</Route>
      <Route>
        {!user.data ? <Loading /> : user.data.team ? <Redirect to={`/project/${user.data.team.id}/home`} replace /> : <NoProject />}
      </Route>
    </Switch>
  );
}

function NoProject() {
  return (
    <main>
      <Empty title={t("There is no project that you may see")} action={<Button onClick={() => void logOut()}>{t("Log out")}</Button>}>
        {t("Ask an owner of the organization for access.")}
      </Empty>
    </main>
  );
}

function InProject({ id, user }: { id: string; user: User | undefined }) {
  const project = useQuery({
    queryKey: ["project", id],
    queryFn: () => get<Project>(`/api/projects/${encodeURIComponent(id)}/`),
    staleTime: 60_000,
  });
  const root = `/project/${id}`;
  return (
    <ProjectContext.Provider value={{ id, root, api: `/api/projects/${encodeURIComponent(id)}`, project: project.data, user }}>
      <Shell>
        {project.error && !project.data ? (
          <main class="page" id="content" tabIndex={-1}>
            <Failed error={project.error} onRetry={() => project.refetch()} />
          </main>
        ) : (
          <Suspense fallback={<Loading />}>
            <FocusOnPage />
            <Switch>
              <Route path="/project/:project/feature_flags" component={FlagsPage} />
              <Route path="/project/:project/feature_flags/scheduled_changes" component={ScheduledChangesPage} />
              <Route path="/project/:project/feature_flags/:flag" component={FlagPage} />
              <Route path="/project/:project/rollout_plans" component={RolloutsPage} />
              <Route path="/project/:project/rollout_plans/:plan" component={RolloutPage} />
              <Route path="/project/:project/environments" component={EnvironmentsPage} />
              <Route path="/project/:project/changes" component={ChangesPage} />
              <Route path="/project/:project/changes/policies" component={PoliciesPage} />
              <Route path="/project/:project/changes/:change" component={ChangePage} />
              <Route path="/project/:project/persons" component={PersonsPage} />
              <Route path="/project/:project/persons/:person" component={PersonPage} />
              <Route path="/project/:project/cohorts" component={CohortsPage} />
              <Route path="/project/:project/cohorts/:cohort" component={CohortPage} />
              <Route path="/project/:project/groups/:type/:key" component={GroupPage} />
              <Route path="/project/:project/groups/:type?" component={GroupsPage} />
              <Route path="/project/:project/experiments" component={ExperimentsPage} />
              <Route path="/project/:project/experiments/holdouts" component={HoldoutsPage} />
              <Route path="/project/:project/experiments/:experiment" component={ExperimentPage} />
              <Route path="/project/:project/surveys" component={SurveysPage} />
              <Route path="/project/:project/surveys/:survey" component={SurveyPage} />
              <Route path="/project/:project/early_access_features" component={FeaturesPage} />
              <Route path="/project/:project/early_access_features/:feature" component={FeaturePage} />
              <Route path="/project/:project/activity/explore" component={ExplorePage} />
              <Route path="/project/:project/activity/live" component={LivePage} />
              <Route path="/project/:project/insights" component={InsightsPage} />
              <Route path="/project/:project/insights/:insight" component={InsightPage} />
              <Route path="/project/:project/dashboard" component={DashboardsPage} />
              <Route path="/project/:project/dashboard/:dashboard" component={DashboardPage} />
              <Route path="/project/:project/data-management/events" component={EventDefinitionsPage} />
              <Route path="/project/:project/data-management/events/:definition" component={EventDefinitionPage} />
              <Route path="/project/:project/data-management/properties" component={PropertyDefinitionsPage} />
              <Route path="/project/:project/data-management/actions" component={ActionsPage} />
              <Route path="/project/:project/data-management/actions/:action" component={ActionPage} />
              <Route path="/project/:project/sql" component={QueryPage} />
              <Route path="/project/:project/activity_log" component={ActivityPage} />
              <Route path="/project/:project/home" component={HomePage} />
              <Route path="/project/:project/settings/:section?" component={SettingsPage} />
              <Route path="/project/:project/system" component={SystemPage} />
              <Route path="/project/:project/pipeline/:family?" component={PipelinesPage} />
              <Route path="/project/:project/pipeline/:family/new" component={CataloguePage} />
              <Route path="/project/:project/pipeline/:family/:record" component={RecordPage} />
              <Route path="/project/:project/data-management/ingestion-warnings" component={IngestionPage} />
              <Route path="/project/:project">
                <Redirect to={`${root}/home`} replace />
              </Route>
              <Route>
                <Page title={t("This page does not exist")}>
                  <Empty title={t("Nothing is here")}>{t("The address may be of a page that is not built yet.")}</Empty>
                </Page>
              </Route>
            </Switch>
          </Suspense>
        )}
      </Shell>
    </ProjectContext.Provider>
  );
}

/** Scroll to the top when the page changes. */
function FocusOnPage() {
  useEffect(() => window.scrollTo(0, 0), [location.pathname]);
  return null;
}
